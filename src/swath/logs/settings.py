"""LogSettings: where a command logs to, and how much."""

from dataclasses import dataclass, fields
from typing import Any, Final

from swath import InvalidSetting, find_passwords

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")
STDERR: Final = "-"  # the file name that stands for standard error

FILE_HELP = f"File to append the log to; {STDERR} is standard error. It may be rotated at any time"
LEVEL_HELP = "Least important lines to log; debug has a line for each claim, settlement and fetch"
FORMAT_HELP = "Format of the log"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The options of a log. Without any of them there is no log; with a level or a format only, it goes to standard
    error."""

    file: str | None = None
    level: str | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        for flag, value, allowed in (("level", self.level, LEVELS), ("format", self.format, FORMATS)):
            if value is not None and value not in allowed:
                raise InvalidSetting(f"--log-{flag} {value}: must be one of {', '.join(allowed)}")
        if self.file == "":
            raise InvalidSetting(f"--log-file: the name is empty; for standard error, give {STDERR}")

    @property
    def is_wanted(self) -> bool:
        return any(value is not None for value in (self.file, self.level, self.format))

    @property
    def to_stderr(self) -> bool:
        return self.is_wanted and self.file in (None, STDERR)


NO_LOG: Final = LogSettings()


def list_changed_settings(settings: Any) -> dict[str, Any]:
    """Return the fields of a job's settings, a dataclass, whose values are not the defaults."""
    values = {field.name: (getattr(settings, field.name), field.default) for field in fields(settings)}
    return {name: value for name, (value, default) in values.items() if value != default and value is not None}


def find_secrets(settings: Any) -> set[str]:
    """Return the passwords in the URLs of a job's settings."""
    secrets: set[str] = set()
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, str) and ("://" in value or field.name == "proxy"):
            secrets |= find_passwords(value if "://" in value else f"//{value}")
    return secrets
