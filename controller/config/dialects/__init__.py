"""Configurations that people bring with them, translated into the one settings model; nothing is decided here."""
