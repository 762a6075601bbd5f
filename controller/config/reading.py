"""Files of the settings, read whole: of a sensible size, in UTF-8, or one clear problem with the file's name."""

from __future__ import annotations

from pathlib import Path as FilePath

from controller.config.errors import ConfigError, Problem

_LARGEST = 4_000_000


def read_text(file: str, named_by: str = "") -> str:
    """`named_by`: the variable or flag that named the file."""
    where = f"{named_by} ({file})" if named_by else file
    try:
        path = FilePath(file)
        if path.is_file() and path.stat().st_size > _LARGEST:
            raise ConfigError([Problem("", None, "settings of a sensible size", where)])
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError([Problem("", None, f"a file that can be read ({error.strerror})", where)]) from None
    except UnicodeDecodeError:
        raise ConfigError([Problem("", None, "text in UTF-8", where)]) from None
    except ValueError:  # a name with a NUL in it
        raise ConfigError([Problem("", None, "the name of a file", named_by or "config")]) from None
