"""What commands print: tables, progress and findings, as text for people and as lines of JSON for programs."""
