"""The public names are what `__all__` says, and each is documented."""

import inspect
import types

import swath
import swath.sync


def test_all_names_are_there_and_no_others_are_public() -> None:
    public = {
        name
        for name, value in vars(swath).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public | {"events"} == set(swath.__all__)


def test_every_public_class_says_what_it_is() -> None:
    for name in swath.__all__:
        assert inspect.getdoc(getattr(swath, name)), name


def test_the_version_is_the_packages() -> None:
    from importlib.metadata import version

    assert version("swath") == swath.__version__
