"""One way to join, as the settings describe it, and what can be wrong with it before money is spent."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

import msgspec

K3S = "k3s"
KUBEADM = "kubeadm"
TEMPLATES = (K3S, KUBEADM)

_HASH = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
_K3S_VERSION = re.compile(r"v?1\.\d+\.\d+(?:-rc\d+)?\+k3s\d+")
_KUBERNETES_VERSION = re.compile(r"v?(1\.\d+)(?:\.(\d+)([-+][A-Za-z0-9.+-]+)?)?")
_OLDEST_MINOR = 31  # the first that reads kubeadm.k8s.io/v1beta4


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A template with a server and where its token is, a script that the user keeps in the account, or one given here."""

    template: str = ""  # k3s | kubeadm
    startup_script_id: str = ""
    server: str = ""  # https://host[:port]
    secret_name: str = ""
    secret_key: str = "token"  # noqa: S105 - the name of a key
    version: str = ""  # k3s: v1.36.3+k3s1 or 1.36, empty: the stable channel; kubeadm: 1.36 or 1.36.3
    ca_hash: str = ""  # k3s: of /cacerts; kubeadm: of the CA's public key; with or without "sha256:"
    ca_cert: str = ""  # kubeadm: the CA in PEM; then the machine keeps to `server` (file discovery)
    token: str = ""  # itself, where the settings hold it instead of naming a Secret
    script: str = ""  # the user's own, or where to get it:
    script_file: str = ""
    script_url: str = ""
    variables: tuple[str, ...] = ()  # of our own environment, for such a script

    @property
    def own(self) -> bool:
        """Whether it is a script of the user's own that is made ready for each machine."""
        return bool(self.script or self.script_file or self.script_url)


def fault(entry: Entry) -> str:
    """What is wrong with the entry, as one line that says what to write instead; "" if nothing."""
    if entry.startup_script_id:
        return "give either template or startup_script_id, not both" if entry.template or entry.own else ""
    if entry.own:
        return "give either template or a script of your own, not both" if entry.template else ""
    if entry.template not in TEMPLATES:
        return f"template must be one of {', '.join(TEMPLATES)}, or give startup_script_id"
    if server_address(entry.server) is None:
        return f"server must look like https://host:6443, not {entry.server!r}"
    if not entry.token and (not entry.secret_name or not entry.secret_key):
        return "name the Secret that holds the token, and its key"
    if entry.ca_hash and not _HASH.fullmatch(entry.ca_hash):
        return "ca_hash must be 64 hex digits, with or without sha256: in front"
    return _k3s_fault(entry) if entry.template == K3S else _kubeadm_fault(entry)


def _k3s_fault(entry: Entry) -> str:
    if entry.version and not any(k3s_release(entry.version)):
        return f"version must look like v1.36.3+k3s1 or 1.36, not {entry.version!r}"
    return "ca_cert is for kubeadm; k3s needs ca_hash" if entry.ca_cert else ""


def _kubeadm_fault(entry: Entry) -> str:
    minor = minor_version(entry.version)
    if not minor or int(minor.removeprefix("1.")) < _OLDEST_MINOR:
        return f"version must be the cluster's, 1.{_OLDEST_MINOR} or newer, such as 1.36 or 1.36.3"
    if "+k3s" in entry.version or "+rke2" in entry.version:
        return f"a cluster of version {entry.version} was not made by kubeadm; k3s has a template of its own"
    if not entry.ca_hash and not entry.ca_cert:
        return "kubeadm needs ca_cert or ca_hash: without one the machine would trust anybody"
    if entry.ca_cert and "-----BEGIN CERTIFICATE-----" not in entry.ca_cert:
        return "ca_cert must be a certificate in PEM"
    return ""


def server_address(server: str) -> SplitResult | None:
    """The parts of an https URL that names a host and nothing behind it."""
    if not server.isprintable() or any(c in server for c in " '\"\\"):
        return None
    try:
        parts = urlsplit(server)
        _ = parts.port  # a port that is no number is found out here
    except ValueError:
        return None
    plain = parts.path in ("", "/") and not parts.query and not parts.fragment and "@" not in parts.netloc
    return parts if parts.scheme == "https" and parts.hostname and plain else None


def minor_version(version: str) -> str:
    match = _KUBERNETES_VERSION.fullmatch(version)
    return match[1] if match else ""


def k3s_release(version: str) -> tuple[str, str]:
    """Exact release and channel, of which one at most is named; a channel is the newest of its minor.

    A version that names no release of k3s, as some clusters tell theirs, still pins the minor.
    """
    if _K3S_VERSION.fullmatch(version):
        return "v" + version.removeprefix("v"), ""
    minor = minor_version(version)
    return "", f"v{minor}" if minor else ""


def exact_version(version: str) -> str:
    """Without the v, if a patch release is named and nothing else; otherwise "": the newest of the minor."""
    match = _KUBERNETES_VERSION.fullmatch(version)
    return f"{match[1]}.{match[2]}" if match and match[2] and not match[3] else ""
