"""Change every row of a big table, safely, while it is in use."""
