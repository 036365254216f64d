"""Which release this is, said here alone: to ask the installed package of it takes a hundred modules."""

VERSION = "0.1.0"
