"""How many generated examples a property is tried on."""

from hypothesis import settings


def examples(default: int, deep: int) -> int:
    """Return the number of the run that is on: that of the default suite, or of the deep one."""
    return deep if settings.get_current_profile_name() == "deep" else default
