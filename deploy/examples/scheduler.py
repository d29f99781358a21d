#!/usr/bin/env python3
"""Decides which processes may join shares that were made with --admit=ask: jobs of Slurm and, with --user, those of users.

Usage: scheduler.py [--socket PATH] [--user NAME_OR_UID]... [--once]
Memory that a share waits for is always left to wait. docs/channel.md has the protocol.
"""
import argparse
import http.client
import json
import pwd
import socket
import time


class Daemon(http.client.HTTPConnection):
    """headgated at its Unix socket, which tells the daemon our user."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path, method, target, body=None):
    connection = Daemon(path)
    connection.request(method, target, body)
    with connection.getresponse() as response:
        return json.loads(response.read() or "null")


def decide(task, uids):
    if task["kind"] != "admit":
        return {"allow": True}
    payload = task["payload"]
    if str(payload.get("where", "")).startswith("slurm") or payload.get("uid") in uids:
        return {"allow": True}
    return {"allow": False, "reason": "only jobs of the queue run here"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--socket", default="/run/headgate/control/headgate.sock")
    parser.add_argument("--user", action="append", default=[])
    parser.add_argument("--once", action="store_true", help="answer one question, then end")
    options = parser.parse_args()
    uids = {int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid for name in options.user}
    tasks = "/v1/channel/scheduler/tasks"
    while True:
        try:
            for task in ask(options.socket, "GET", f"{tasks}?wait=30s")["tasks"]:
                answer = json.dumps(decide(task, uids))
                ask(options.socket, "POST", f"{tasks}/{task['id']}/result?attempt={task['attempt']}", answer)
                if options.once:
                    return
        except (OSError, http.client.HTTPException) as trouble:  # the daemon restarts: its tasks come again
            print(f"scheduler.py: {options.socket}: {trouble}; trying again", flush=True)
            time.sleep(1)


if __name__ == "__main__":
    main()
