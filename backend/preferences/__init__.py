"""What people prefer, and how far that can be trusted: schedules, ratings, agreement. No torch, no database."""
