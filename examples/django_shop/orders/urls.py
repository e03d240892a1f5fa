"""The addresses of the shop."""

from django.urls import path

from . import views

urlpatterns = [
    path("orders/", views.place),
    path("orders/<int:order_id>/", views.show),
    path("tasks/<str:task_id>/", views.show_task),
]
