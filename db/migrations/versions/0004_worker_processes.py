"""How many processes a run may have on a worker."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("worker", sa.Column("processes", sa.Integer(), server_default="1", nullable=False))


def downgrade() -> None:
    op.drop_column("worker", "processes")
