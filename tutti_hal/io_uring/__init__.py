"""The ring's host half: batches of requests that GPU threads submit to drives, one copy and one launch each."""
