"""Scala classes for what Spark would otherwise send through Python record by record; jars.py builds them when used."""
