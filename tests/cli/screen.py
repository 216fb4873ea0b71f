"""A screen that wraps its lines again when it is resized, as most terminals do."""

import re
from collections.abc import Iterator

_PART = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+")


class Screen:
    """The rows that a terminal shows, with enough of its control sequences for a live display."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._rows = [""]
        self._wrapped = [False]  # whether the row continues the one above
        self._row = 0
        self._column = 0

    def feed(self, text: str) -> None:
        for part in _PART.findall(text):
            if part == "\r":
                self._column = 0
            elif part == "\n":
                self._go_down(wrapped=False)
            elif part.startswith("\x1b"):
                self._control(part)
            else:
                for character in part:
                    self._write(character)

    def resize(self, width: int) -> None:
        """Join wrapped rows, and wrap the lines at the new width. The cursor stays at its character."""
        lines: list[str] = []
        cursor = (0, 0)  # line and column
        for number, (row, wrapped) in enumerate(zip(self._rows, self._wrapped, strict=True)):
            if wrapped:
                lines[-1] += row
            else:
                lines.append(row)
            if number == self._row:
                cursor = len(lines) - 1, len(lines[-1]) - len(row) + self._column
        self.width = width
        self._rows, self._wrapped = [], []
        for number, line in enumerate(lines):
            pieces = list(self._wrap(line))
            if number == cursor[0]:
                self._row = len(self._rows) + min(cursor[1] // width, len(pieces) - 1)
                self._column = cursor[1] % width
            self._rows += pieces
            self._wrapped += [bool(place) for place in range(len(pieces))]

    def list_rows(self) -> list[str]:
        """Return the rows that are not empty."""
        return [row.rstrip() for row in self._rows if row.strip()]

    def _wrap(self, line: str) -> Iterator[str]:
        for start in range(0, max(1, len(line)), self.width):
            yield line[start : start + self.width]

    def _write(self, character: str) -> None:
        if self._column == self.width:
            self._column = 0
            self._go_down(wrapped=True)
        row = self._rows[self._row].ljust(self._column)
        self._rows[self._row] = row[: self._column] + character + row[self._column + 1 :]
        self._column += 1

    def _go_down(self, *, wrapped: bool) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append("")
            self._wrapped.append(wrapped)

    def _control(self, sequence: str) -> None:
        number, kind = sequence[2:-1], sequence[-1]
        if kind == "A":
            self._row = max(0, self._row - int(number or 1))
        elif kind == "K":
            assert number == "2"
            self._rows[self._row] = ""
            self._wrapped[self._row] = False
        else:
            assert kind in "mhl", sequence
