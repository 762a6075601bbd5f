"""Files of the settings, read whole: of a sensible size, in UTF-8, or one clear problem with the file's name.

A shell's `<(command)` is a pipe: it gives its text once, and whoever opens it again waits for ever.
"""

from __future__ import annotations

import os
import stat

from controller.config.errors import ConfigError, Problem, show_file

_LARGEST = 4_000_000


def read_text(file: str, named_by: str = "") -> str:
    """`named_by`: the variable or flag that named the file."""
    where = f"{named_by} ({show_file(file)})" if named_by else file
    try:
        with open(file, "rb") as stream:
            content = stream.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ConfigError([Problem("", None, "settings of a sensible size", where)])
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise ConfigError([Problem("", None, f"a file that can be read ({error.strerror})", where)]) from None
    except UnicodeDecodeError:
        raise ConfigError([Problem("", None, "text in UTF-8", where)]) from None
    except ValueError:  # a name with a NUL in it
        raise ConfigError([Problem("", None, "the name of a file", named_by or "config")]) from None


def is_read_once(file: str) -> bool:
    """Whether it is a pipe or a device, which must not be read again to see whether it has changed."""
    try:
        mode = os.stat(file).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
