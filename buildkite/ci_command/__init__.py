"""The `/ci` comment command and the `dropgate` commit status.

`python -m buildkite.ci_command comment` answers one pull request comment: it reads the event that GitHub
Actions saved, decides whether the person may start CI, and starts, retries or cancels a Buildkite build.
`python -m buildkite.ci_command status` publishes a verdict as the commit status that branch protection
waits for.

    event -> commands -> policy -> actions -> answers
              (pure)      (pure)   (HTTP)      (pure)

Nothing here checks out, imports or runs the pull request's code, and the comment's text never reaches a
shell.
"""
