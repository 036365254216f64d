"""The options: typed once, under Hudi's names."""
