"""A callback of LiteLLM that writes the end user of each request to a file."""

import os

from litellm.integrations.custom_logger import CustomLogger


class EndUsers(CustomLogger):
    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        with open(os.environ["END_USERS"], "a", encoding="utf-8") as file:
            file.write(f"{kwargs['standard_logging_object']['metadata']['user_api_key_end_user_id']}\n")


end_users = EndUsers()
