"""Look at every record or file before, during and after a migration."""
