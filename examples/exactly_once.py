"""Exactly once: your writes and the settlement commit in one transaction, in one SQLite file.

Run it, kill it at any time and run it again: every account is credited once.
"""

import asyncio
import sqlite3

import swath

ACCOUNTS = 200


async def main() -> None:
    async with swath.open("sqlite:///bank.db") as frontier:
        bank = sqlite3.connect("bank.db", isolation_level=None)
        bank.execute("CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, credits INTEGER NOT NULL DEFAULT 0)")
        bank.executemany("INSERT OR IGNORE INTO account (id) VALUES (?)", [(n,) for n in range(ACCOUNTS)])
        await frontier.add(str(n) for n in range(ACCOUNTS))
        while claim := await frontier.claim(limit=10):
            for item in claim.items:
                bank.execute("BEGIN IMMEDIATE")
                bank.execute("UPDATE account SET credits = credits + 1 WHERE id = ?", (int(item.key),))
                await claim.settle([item.done()], connection=bank)
                bank.execute("COMMIT")
        credited, total = bank.execute("SELECT count(*), sum(credits) FROM account WHERE credits = 1").fetchone()
        print(f"{credited} of {ACCOUNTS} accounts were credited once; {total} credits in total")
        bank.close()


if __name__ == "__main__":
    asyncio.run(main())
