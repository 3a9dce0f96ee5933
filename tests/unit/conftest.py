from hypothesis import settings

# a machine under load must not fail a property
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
