"""The actions of `ottla streams`. Spark, and what imports it, is imported when one of them runs."""
