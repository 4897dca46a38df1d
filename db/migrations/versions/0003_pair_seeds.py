"""Pairs of one model: the noise seed of the second sample, where it is another one than the first one's."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("review_pair", sa.Column("seed_b", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("review_pair", "seed_b")
