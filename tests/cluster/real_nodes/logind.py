"""Plays systemd's logind for the kubelet of a node: `python3 logind.py ADDRESS`, of a bus; SIGUSR1 is the shutdown.

A kubelet reads how long logind waits for it, takes a lock that delays the shutdown, and ends its pods as soon as it is
told that the shutdown begins (pkg/kubelet/nodeshutdown/systemd/inhibit_linux.go). Nothing here waits for the lock.

It runs with Debian's Python, for its packages dbus and gi.
"""

import os
import signal
import sys
from typing import Any

import dbus.bus  # type: ignore[import-not-found]
import dbus.mainloop.glib  # type: ignore[import-not-found]
from dbus import lowlevel
from gi.repository import GLib  # type: ignore[import-not-found]

NAME = "org.freedesktop.login1"
LONGEST_DELAY = 600_000_000  # microseconds
ANSWERS = {  # by call: for the property InhibitDelayMaxUSec, and for a lock
    "Get": dbus.UInt64(LONGEST_DELAY, variant_level=1),
    "Inhibit": dbus.types.UnixFd(os.pipe()[1]),
}


def answer(connection: Any, message: Any) -> int:
    """Answer the two calls of a kubelet."""
    if not isinstance(message, lowlevel.MethodCallMessage) or message.get_member() not in ANSWERS:
        return int(lowlevel.HANDLER_RESULT_NOT_YET_HANDLED)
    reply = lowlevel.MethodReturnMessage(message)
    reply.append(ANSWERS[message.get_member()])
    connection.send_message(reply)
    return int(lowlevel.HANDLER_RESULT_HANDLED)


def shut_down() -> bool:
    """Say that the shutdown begins; return True to be called again."""
    said = lowlevel.SignalMessage("/org/freedesktop/login1", f"{NAME}.Manager", "PrepareForShutdown")
    said.append(True)
    BUS.send_message(said)
    return True


dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
BUS = dbus.bus.BusConnection(sys.argv[1])
BUS.add_message_filter(answer)
BUS.request_name(NAME)
GLib.unix_signal_add(GLib.PRIORITY_DEFAULT, signal.SIGUSR1, shut_down)
sys.stdout.write("answers\n")
sys.stdout.flush()
GLib.MainLoop().run()
