"""Credentials in files are those that stand there now, however Kubernetes swaps them."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from controller.config.credentials import LiveCredentials, files_of
from controller.config.load import load
from controller.config.settings import Verda


class Mount:
    """A Secret as the kubelet mounts it: files are links to `..data/file`, and `..data` is swapped."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._generation = 0

    def write(self, **values: str) -> None:
        self._generation += 1
        folder = self.root / f"..generation_{self._generation}"
        folder.mkdir()
        for name, value in values.items():
            (folder / name).write_text(value)
            link = self.root / name
            if not link.is_symlink():
                link.symlink_to(Path("..data") / name)
        fresh = self.root / "..data_tmp"
        fresh.symlink_to(folder.name)
        os.replace(fresh, self.root / "..data")

    def environ(self, **more: str) -> dict[str, str]:
        return {
            "VERDA_CLIENT_ID_FILE": str(self.root / "id"),
            "VERDA_CLIENT_SECRET_FILE": str(self.root / "secret"),
            **more,
        }


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    made = Mount(tmp_path)
    made.write(id="one", secret="secret-one\n")
    return made


def live(environ: dict[str, str], heard: list[str] | None = None) -> LiveCredentials:
    loaded = load(None, environ)
    files = files_of(loaded.origins, environ)
    return LiveCredentials(
        loaded.settings.verda, files, heard.append if heard is not None else lambda _: None
    )


URL = "https://api.verda.com/v1"


def test_a_swapped_secret_is_read_at_the_next_use(mount: Mount) -> None:
    found = live(mount.environ())
    assert found.current() == ("one", "secret-one", URL)
    mount.write(id="two", secret="secret-two")
    assert found.current() == ("two", "secret-two", URL)
    mount.write(id="two", secret="secret-six")  # of the same length, written at once
    assert found.current() == ("two", "secret-six", URL)


def test_what_changed_between_the_start_and_the_first_use_is_noticed(mount: Mount) -> None:
    found = live(mount.environ())
    mount.write(id="two", secret="secret-two")
    assert found.current() == ("two", "secret-two", URL)


def test_the_address_may_stand_in_a_file_too(mount: Mount) -> None:
    mount.write(id="one", secret="s", url="https://one.example/v1\n")
    found = live(mount.environ(VERDA_BASE_URL_FILE=str(mount.root / "url")))
    assert found.current()[2] == "https://one.example/v1"
    mount.write(id="one", secret="s", url="https://two.example/v1\n")
    assert found.current()[2] == "https://two.example/v1"


def test_the_old_names_have_files_and_an_address_too(mount: Mount) -> None:
    old = {key.replace("VERDA", "DATACRUNCH"): value for key, value in mount.environ().items()}
    found = live(old | {"DATACRUNCH_BASE_URL": "https://api.datacrunch.io/v1"})
    assert found.current() == ("one", "secret-one", "https://api.datacrunch.io/v1")
    mount.write(id="two", secret="secret-two")
    assert found.current()[:2] == ("two", "secret-two")


def test_a_variable_that_wins_over_a_file_stays(mount: Mount) -> None:
    found = live(mount.environ(VERDA_CLIENT_ID="fixed"))
    mount.write(id="two", secret="secret-two")
    assert found.current() == ("fixed", "secret-two", URL)


def test_what_changed_is_told_before_it_is_used_so_that_it_can_be_kept_out_of_the_logs(mount: Mount) -> None:
    heard: list[str] = []
    found = live(mount.environ(), heard)
    found.current()
    assert heard == []
    mount.write(id="one", secret="secret-two")
    found.current()
    assert heard == ["secret-two"]


@pytest.mark.parametrize("trouble", ["missing", "empty", "two lines"])
def test_a_file_that_cannot_be_used_leaves_what_was_known_and_is_told_once(
    mount: Mount, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = live(mount.environ())
    found.current()
    file = mount.root / "secret"
    if trouble == "missing":
        file.unlink()
    else:
        mount.write(id="one", secret="" if trouble == "empty" else "a\nb")
    with caplog.at_level(logging.INFO, "gpu_autoscaler"):
        for _ in range(5):
            assert found.current() == ("one", "secret-one", URL)
        assert len(caplog.messages) == 1
        assert f"{file}: verda.client_secret: expected a file" in caplog.messages[0]
        if trouble == "missing":
            file.symlink_to(Path("..data") / "secret")
        mount.write(id="one", secret="secret-two")
        assert found.current()[1] == "secret-two"
        assert caplog.messages[1:] == ["recovered"]
    assert "secret-" not in caplog.text


def test_an_address_that_is_none_is_refused_and_the_last_one_stays(
    mount: Mount, caplog: pytest.LogCaptureFixture
) -> None:
    mount.write(id="one", secret="s", url="https://one.example/v1")
    found = live(mount.environ(VERDA_BASE_URL_FILE=str(mount.root / "url")))
    mount.write(id="one", secret="s", url="one.example")
    assert found.current()[2] == "https://one.example/v1"
    assert "expected a URL" in caplog.text


def test_credentials_in_changed_settings_are_used_from_then_on_and_files_keep_their_word() -> None:
    told: list[str] = []
    live = LiveCredentials(Verda(client_id="a", client_secret="old-secret-1"), {}, told.append)  # type: ignore[arg-type]
    live.replace(Verda(client_id="b", client_secret="new-secret-2"), {})  # type: ignore[arg-type]
    assert live.current()[:2] == ("b", "new-secret-2")
    assert told == ["b", "new-secret-2"]
