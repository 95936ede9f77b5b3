"""The SQL side: sessions and runs, artifacts, notes, reminders, training, playbook. SQLite, or PostgreSQL by URL.

`Database` runs functions of a connection, one transaction each; `runs`, `sessions`, `archive`, `notes`,
`reminders`, `gym`, `playbook` and `grants` are modules of them: `await db.run(lambda c: notes.get(c, principal, id))`.
"""

from shared.sql.engine import Database, database_url

__all__ = ["Database", "database_url"]
