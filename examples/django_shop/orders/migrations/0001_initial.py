"""The tables of the shop."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Makes both tables."""

    initial = True
    operations = [  # noqa: RUF012
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("customer", models.EmailField(max_length=254)),
                ("item", models.CharField(max_length=100)),
                ("cents", models.PositiveIntegerField()),
                ("placed", models.DateTimeField(auto_now_add=True)),
                ("invoice", models.CharField(blank=True, max_length=100)),
                ("mailed", models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name="Report",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("made", models.DateTimeField(auto_now_add=True)),
                ("orders", models.PositiveIntegerField()),
                ("cents", models.PositiveIntegerField()),
            ],
        ),
    ]
