from hypothesis import settings

# a machine under load must not fail a property
settings.register_profile("patient", deadline=None, max_examples=30)
settings.load_profile("patient")
