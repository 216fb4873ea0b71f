"""A machine whose clocks a test moves by hand."""

from dataclasses import dataclass

from swath.core.clock import SECOND


@dataclass
class ManualMachine:
    """The two clocks of a machine, in seconds. `MachineClock` reads them in microseconds."""

    boot: str = "first"
    up: float = 1_000.0  # since the boot
    epoch: float = 1_700_000_000.0  # what the wall clock shows

    def since_boot(self) -> int:
        return round(self.up * SECOND)

    def wall(self) -> int:
        return round(self.epoch * SECOND)

    def advance(self, seconds: float) -> None:
        self.up += seconds
        self.epoch += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock, as an administrator or a time server does."""
        self.epoch += seconds

    def restart(self, boot: str, *, down: float) -> None:
        """Boot again. The wall clock has advanced by `down` seconds, or less than none if it lost its time."""
        self.boot, self.up, self.epoch = boot, 1.0, self.epoch + down
