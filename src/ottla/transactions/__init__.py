"""The transaction coordinator: what a transactional id's producer may do, and how its transactions end."""
