"""Which run holds the history of the nights before, chosen from GitHub's list of artifacts.

Standard library only, so that the job which may read artifacts has nothing to install:
`python -m reports.night.artifacts BRANCH < list`.
"""

from __future__ import annotations

import json
import sys

NAME = "history"


def latest_history(listed: object, branch: str) -> int | None:
    """The id of the newest run of this repository's own `branch` whose history has not expired; None on a first night.

    A red night keeps its history too, so the run's conclusion does not matter. An artifact of the same name that a pull
    request made is not ours, even if its branch is called the same: it comes from another repository.
    Raises ValueError where the list is none.
    """
    if not isinstance(listed, dict) or not isinstance(listed.get("artifacts"), list):
        raise ValueError("not a list of artifacts")
    found = [(str(a.get("created_at")), a["workflow_run"]["id"]) for a in listed["artifacts"] if _is_ours(a, branch)]
    return max(found)[1] if found else None


def _is_ours(artifact: object, branch: str) -> bool:
    if not isinstance(artifact, dict) or artifact.get("name") != NAME or artifact.get("expired") is not False:
        return False
    run = artifact.get("workflow_run")
    if not isinstance(run, dict) or not isinstance(run.get("id"), int):
        return False
    own = run.get("repository_id") is not None and run.get("repository_id") == run.get("head_repository_id")
    return own and run.get("head_branch") == branch


def main() -> int:
    """Print the run's id, or nothing; exit code 2 for a list that cannot be read."""
    try:
        found = latest_history(json.load(sys.stdin), sys.argv[1])
    except (ValueError, IndexError) as failed:
        sys.stderr.write(f"error: {failed}\n")
        return 2
    sys.stdout.write(f"{found}\n" if found is not None else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
