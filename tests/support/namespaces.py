"""Two hosts on one machine: network namespaces of a user namespace, joined by a veth pair, gone with the test."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

ADDRESSES = ("10.77.0.1", "10.77.0.2")


@dataclass(frozen=True)
class Host:
    """A network namespace with an address of its own, held by a process that ends with the test."""

    address: str
    interface: str
    holder: int

    @property
    def enter(self) -> list[str]:
        """Return what to put before a command to run it here."""
        return ["nsenter", "--preserve-credentials", "--user", "--net", "--target", str(self.holder)]

    @property
    def environment(self) -> dict[str, str]:
        """Return what the engine has to be told, as on any host with several addresses."""
        return {"VLLM_HOST_IP": self.address, "GLOO_SOCKET_IFNAME": self.interface}

    def run(self, *command: str) -> None:
        """Run a command here."""
        subprocess.run([*self.enter, *command], check=True, capture_output=True, text=True, timeout=30)

    def cut(self) -> None:
        """Drop every packet that leaves, and say so to nobody: the link stays up."""
        self.run("tc", "qdisc", "replace", "dev", self.interface, "root", "pfifo", "limit", "0")

    def mend(self) -> None:
        """Let packets pass again."""
        self.run("tc", "qdisc", "del", "dev", self.interface, "root")


def why_not() -> str | None:
    """Say why this user cannot have network namespaces here; ``None`` where that works."""
    try:
        with two_hosts():
            return None
    except FileNotFoundError as error:
        return f"no {error.filename} here"
    except subprocess.CalledProcessError as error:
        return str(error.stderr or error).strip()
    except TimeoutError as error:
        return str(error)


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Make both, joined, and see that neither is left."""
    with ExitStack() as stack:
        first = stack.enter_context(_holding([], ["--user", "--map-root-user", "--net"]))
        near = Host(ADDRESSES[0], "dg0", first.pid)
        second = stack.enter_context(_holding(near.enter, ["--net"]))
        far = Host(ADDRESSES[1], "dg1", second.pid)
        names = [str(Path(f"/proc/{host.holder}/ns/net").readlink()) for host in (near, far)]
        near.run("ip", "link", "add", "dg0", "type", "veth", "peer", "name", "dg1", "netns", str(far.holder))
        for host in (near, far):
            host.run("ip", "address", "add", f"{host.address}/24", "dev", host.interface)
            host.run("ip", "link", "set", host.interface, "up")
            host.run("ip", "link", "set", "lo", "up")
        yield near, far
    assert not set(names) & namespaces_in_use()


@contextmanager
def _holding(enter: list[str], kinds: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Keep namespaces open; ``cat`` ends when its input does, so not even kill -9 of the test leaves one."""
    command, known = [*enter, "unshare", *kinds, "cat"], namespaces_in_use() | {""}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as holder:
        try:
            deadline = time.monotonic() + 10
            while _namespace(holder.pid) in known or psutil.Process(holder.pid).name() != "cat":
                if holder.poll() is not None:
                    raise subprocess.CalledProcessError(
                        holder.returncode, command, stderr=holder.stderr.read().decode()
                    )
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{command} made no network namespace")
                time.sleep(0.05)
            yield holder
        finally:
            holder.kill()


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def namespaces_in_use() -> set[str]:
    """Name every network namespace that some process is in."""
    return {_namespace(pid) for pid in psutil.pids()} - {""}
