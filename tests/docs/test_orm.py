"""The recipes for Django and SQLAlchemy in a backfill: what they write commits with the slice, or not at all."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.backfill.conftest import a_database, file, server, shared  # noqa: F401  fixtures
from tests.cli.conftest import environment
from tests.tables.conftest import Database

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/howto/orm.md").read_text()
BLOCKS = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROWS, BATCH, POISON = 60, 10, 25

DJANGO_SETTINGS = """
import os
INSTALLED_APPS = ["shop"]
USE_TZ = True
NAMES = ("NAME", "HOST", "USER")
DATABASES = {"default": {name: os.environ.get(name, "") for name in NAMES}}
DATABASES["default"]["ENGINE"] = f"django.db.backends.{os.environ['ENGINE']}"
"""
DJANGO_MODELS = """
from django.db import models

class Customer(models.Model):
    email = models.TextField()
    visits = models.IntegerField(default=0)
    about = models.JSONField(default=dict)
    since = models.DateTimeField(null=True)
"""
SQLALCHEMY_MODELS = """
from datetime import datetime
from sqlalchemy import JSON, DateTime
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

class Base(DeclarativeBase):
    pass

class Customer(Base):
    __tablename__ = "shop_customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    visits: Mapped[int]
    about: Mapped[dict] = mapped_column(JSON)
    since: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
"""
# Handlers that write what the page shows, and then fail when they first meet a row.
FAILING = """
import asyncio
from {module} import normalize

POISON, failed = {poison}, []

def fail_once(rows):
    if not failed and any(row["id"] == POISON for row in rows):
        failed.append(POISON)
        raise ValueError("a row that cannot be changed yet")

def handler(rows, connection):
    normalize(rows, connection)
    fail_once(rows)

async def async_handler(rows, connection):
    await normalize(rows, connection)
    fail_once(rows)
"""
COMMITTING = """
from django.db import transaction
from shop_backfill import normalize
from slice_connection import use_connection

refused = []

def handler(rows, connection):
    normalize(rows, connection)
    if not refused:
        with use_connection(connection):
            try:
                transaction.commit()
            except transaction.TransactionManagementError:
                refused.append(rows)
                raise
"""
ROLLING_BACK = """
from models import Customer
from slice_session import open_session
from sqlalchemy import update

def handler(rows, connection):
    mine = Customer.id.in_([row["id"] for row in rows])
    with open_session(connection) as session:
        session.execute(update(Customer).where(mine).values(visits=100))
        session.rollback()
        session.execute(update(Customer).where(mine).values(visits=Customer.visits + 1, email="ann@x.org"))
        session.commit()
        session.execute(update(Customer).where(mine).values(visits=200))
        session.rollback()
"""
OWN_SESSIONS = """
import os

def with_django(rows, connection):
    import django
    django.setup()
    from django.db.models import F
    from shop.models import Customer
    Customer.objects.filter(id__in=[row["id"] for row in rows]).update(visits=F("visits") + 1)

def with_sqlalchemy(rows, connection):
    from models import Customer
    from sqlalchemy import create_engine, update
    from sqlalchemy.orm import Session
    with Session(create_engine(os.environ["SQLALCHEMY_URL"])) as session:
        session.execute(update(Customer).values(visits=Customer.visits + 1))
        session.commit()
"""


@pytest.fixture
def folder(a_database: Database, tmp_path: Path) -> Path:  # noqa: F811
    return fill(a_database, tmp_path)


def fill(database: Database, tmp_path: Path) -> Path:
    """Write the modules of the page and what they import into a folder. Make the customers anew."""
    for name, code in BLOCKS.findall(PAGE):
        (tmp_path / name).write_text(code)
    (tmp_path / "settings.py").write_text(DJANGO_SETTINGS)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/__init__.py").touch()
    (tmp_path / "shop/models.py").write_text(DJANGO_MODELS)
    (tmp_path / "models.py").write_text(SQLALCHEMY_MODELS)
    time, json = ("timestamptz", "jsonb") if database.kind == "postgresql" else ("text", "text")
    database.do(
        "DROP SCHEMA IF EXISTS swath_backfill_shop_customer CASCADE" if time == "timestamptz" else "SELECT 1",
        "DROP TABLE IF EXISTS shop_customer",
        "CREATE TABLE shop_customer (id integer PRIMARY KEY, email text NOT NULL, visits integer NOT NULL DEFAULT 0, "
        f"about {json} NOT NULL DEFAULT '{{}}', since {time} DEFAULT CURRENT_TIMESTAMP)",
        *(f"INSERT INTO shop_customer (id, email) VALUES ({id_}, 'Ann{id_}@X.org')" for id_ in range(1, ROWS + 1)),
    )
    return tmp_path


def run(database: Database, folder: Path, handler: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as the page shows it."""
    if database.kind == "postgresql":
        given = conninfo_to_dict(database.url)
        django = {"ENGINE": "postgresql", "NAME": given["dbname"], "HOST": given["host"], "USER": given["user"]}
        url = database.url.replace("postgresql://", "postgresql+psycopg://")
    else:
        django = {"ENGINE": "sqlite3", "NAME": database.url.removeprefix("sqlite:///")}
        url = database.url
    env = environment(
        DJANGO_SETTINGS_MODULE="settings",
        SQLALCHEMY_URL=url,
        PYTHONPATH=str(ROOT / "src"),
        PYTHONWARNINGS="error",
        **{name: str(value) for name, value in django.items()},
    )
    command = [
        sys.executable, "-m", "swath", "backfill", "--db", database.url, "--table", "shop_customer", "--run", handler,
        "--batch", str(BATCH), "--target-time", "10s",
    ]  # fmt: skip
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


def check_each_row_was_changed_once(database: Database) -> None:
    assert database.do("SELECT visits, count(*) FROM shop_customer GROUP BY visits") == [(1, ROWS)]
    assert database.do("SELECT count(*) FROM shop_customer WHERE email = lower(email)") == [(ROWS,)]


@pytest.mark.parametrize("module", ["shop_backfill", "app_backfill"])
def test_a_recipe_changes_each_row_once_although_a_slice_fails(
    a_database: Database,  # noqa: F811
    folder: Path,
    module: str,
) -> None:
    (folder / "failing.py").write_text(FAILING.format(module=module, poison=POISON))
    done = run(a_database, folder, "failing:handler")
    assert done.returncode == 0, done.stderr
    check_each_row_was_changed_once(a_database)


def test_the_recipe_for_async_sessions_changes_each_row_once_although_a_slice_fails(
    server: Database,  # noqa: F811
    tmp_path: Path,
) -> None:
    fill(server, tmp_path)
    (tmp_path / "failing.py").write_text(FAILING.format(module="async_backfill", poison=POISON))
    done = run(server, tmp_path, "failing:async_handler")
    assert done.returncode == 0, done.stderr
    check_each_row_was_changed_once(server)


def test_django_cannot_commit_the_transaction_of_a_slice(a_database: Database, folder: Path) -> None:  # noqa: F811
    (folder / "committing.py").write_text(COMMITTING)
    done = run(a_database, folder, "committing:handler")
    assert done.returncode == 0, done.stderr
    check_each_row_was_changed_once(a_database)


def test_sqlalchemy_rolls_back_to_a_savepoint(a_database: Database, folder: Path) -> None:  # noqa: F811
    (folder / "rolling.py").write_text(ROLLING_BACK)
    done = run(a_database, folder, "rolling:handler")
    assert done.returncode == 0, done.stderr
    check_each_row_was_changed_once(a_database)


@pytest.mark.parametrize("library", ["django", "sqlalchemy"])
def test_an_orm_with_a_session_of_its_own_is_led_to_the_page(
    a_database: Database,  # noqa: F811
    folder: Path,
    library: str,
) -> None:
    (folder / "own.py").write_text(OWN_SESSIONS)
    done = run(a_database, folder, f"own:with_{library}")
    assert done.returncode == 2, done.stderr
    assert "the handler waits for itself" in done.stderr
    assert (ROOT / "docs/howto/orm.md").name in done.stderr
    assert a_database.do("SELECT visits, count(*) FROM shop_customer GROUP BY visits") == [(0, ROWS)]
