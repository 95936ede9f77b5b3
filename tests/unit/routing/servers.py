"""A catalogue as MCP servers make it: 504 tools of twelve servers, nothing but names and one-line descriptions."""

from __future__ import annotations

from shared.contract import Catalogue
from tests.unit.routing.support import tool

SERVERS = {
    "github": "issue, pull request, branch, release, workflow run, label, code review",
    "slack": "message, channel, user group, reaction, huddle, canvas, custom emoji",
    "stripe": "customer, invoice, charge, refund, subscription, coupon, payout",
    "jira": "ticket, sprint, board, worklog, epic, component, filter",
    "notion": "page, database, block, template, comment, teamspace, property",
    "kubernetes": "pod, deployment, service, node, secret, namespace, cron job",
    "postgres": "table, index, view, role, backup, extension, materialized view",
    "salesforce": "lead, opportunity, account, contact, campaign, quote, case",
    "spotify": "playlist, track, album, artist, podcast, audiobook, saved episode",
    "home_assistant": "light, thermostat, door lock, window blind, vacuum cleaner, alarm panel, automation",
    "shopify": "product, order, abandoned cart, discount code, collection, gift card, stock level",
    "google_drive": "document, folder, spreadsheet, slide deck, shared drive, permission, revision",
}
VERBS = {
    "list": "Lists {many}, the newest first",
    "get": "Gets the details of one {one}",
    "create": "Creates a new {one}",
    "update": "Changes what is given of a {one}",
    "delete": "Deletes a {one} for good",
    "search": "Finds {many} by text and filters",
}

REQUESTS = (
    ("open a bug in the repo: the login button does nothing", "github_create_issue"),
    ("which PRs are waiting to be merged", "github_list_pull_request"),
    ("get rid of the old feature branch", "github_delete_branch"),
    ("publish release 2.4 on github", "github_create_release"),
    ("did the last CI run pass? show me the workflow run", "github_get_workflow_run"),
    ("abre una incidencia en github por el fallo del login", "github_create_issue"),
    ("post a message on slack that the office is closed tomorrow", "slack_create_message"),
    ("make a channel for the new marketing team", "slack_create_channel"),
    ("take back the thumbs up reaction I left on slack", "slack_delete_reaction"),
    ("what channels are there on slack", "slack_list_channel"),
    ("busca en slack el mensaje donde Marta hablaba del presupuesto", "slack_search_message"),
    ("give this client their money back", "stripe_create_refund"),
    ("bill the customer for March", "stripe_create_invoice"),
    ("cancel her subscription on stripe", "stripe_delete_subscription"),
    ("find the customer with the address ana@example.org in stripe", "stripe_search_customer"),
    ("show me the latest payouts", "stripe_list_payout"),
    ("crea un cupón del 20 % en stripe", "stripe_create_coupon"),
    ("what is in the current sprint", "jira_get_sprint"),
    ("log two hours of work on the jira ticket", "jira_create_worklog"),
    ("change the priority of ticket OPS-12", "jira_update_ticket"),
    ("look for jira tickets that mention timeouts", "jira_search_ticket"),
    ("start a new epic for the billing rewrite", "jira_create_epic"),
    ("busca tickets de jira sobre el pago con tarjeta", "jira_search_ticket"),
    ("write a new page in notion with the minutes", "notion_create_page"),
    ("leave a comment on the notion page", "notion_create_comment"),
    ("find the notion page about onboarding", "notion_search_page"),
    ("add a property for the deadline to the notion database", "notion_create_property"),
    ("crea una página en notion con el acta", "notion_create_page"),
    ("which pods are running", "kubernetes_list_pod"),
    ("scale the web deployment to five replicas", "kubernetes_update_deployment"),
    ("remove that pod from the cluster", "kubernetes_delete_pod"),
    ("store the database password as a kubernetes secret", "kubernetes_create_secret"),
    ("set up a cron job in kubernetes that cleans up at night", "kubernetes_create_cron_job"),
    ("lista los pods del clúster", "kubernetes_list_pod"),
    ("what tables does the postgres database have", "postgres_list_table"),
    ("put an index on the email column", "postgres_create_index"),
    ("take a backup of postgres before we upgrade", "postgres_create_backup"),
    ("drop the unused view in postgres", "postgres_delete_view"),
    ("give the new analyst a postgres role", "postgres_create_role"),
    ("borra el índice que ya no se usa en postgres", "postgres_delete_index"),
    ("a new lead came in from the fair, put it into salesforce", "salesforce_create_lead"),
    ("move the opportunity to the closing stage", "salesforce_update_opportunity"),
    ("send the prospect a quote through salesforce: make one", "salesforce_create_quote"),
    ("find the contact from Acme in salesforce", "salesforce_search_contact"),
    ("busca el contacto de Acme en salesforce", "salesforce_search_contact"),
    ("make me a playlist for running", "spotify_create_playlist"),
    ("search spotify for albums by Rosalía", "spotify_search_album"),
    ("find that podcast about ancient Rome", "spotify_search_podcast"),
    ("throw away my old party playlist", "spotify_delete_playlist"),
    ("crea una lista de reproducción en spotify para cocinar", "spotify_create_playlist"),
    ("dim the lights in the bedroom", "home_assistant_update_light"),
    ("set the thermostat to 20 degrees", "home_assistant_update_thermostat"),
    ("is the front door lock closed", "home_assistant_get_door_lock"),
    ("close the window blinds", "home_assistant_update_window_blind"),
    ("make an automation that turns everything off at midnight", "home_assistant_create_automation"),
    ("which orders came in today on the shop", "shopify_list_order"),
    ("take the red mug out of the shop: delete the product", "shopify_delete_product"),
    ("make a discount code for ten percent off", "shopify_create_discount_code"),
    ("how much stock is left of the blue shirt", "shopify_get_stock_level"),
    ("add a product to shopify: linen apron, 35 euros", "shopify_create_product"),
    ("start a spreadsheet for the trip's costs in drive", "google_drive_create_spreadsheet"),
    ("find the document with the rental contract in drive", "google_drive_search_document"),
    ("make a folder for the tax papers on google drive", "google_drive_create_folder"),
    ("who changed it? show the revisions of the document", "google_drive_list_revision"),
    ("busca en drive el documento del contrato", "google_drive_search_document"),
)


def servers() -> Catalogue:
    """The catalogue, with `find_tools` beside."""
    tools = [tool("find_tools", "core", "Finds tools by what they do", always=True)]
    for server, listed in SERVERS.items():
        for one in listed.split(", "):
            many = f"{one}es" if one.endswith("x") else f"{one}s"
            for verb, says in VERBS.items():
                name = f"{server}_{verb}_{one.replace(' ', '_')}"
                tools.append(tool(name, server, says.format(one=one, many=many)))
    return Catalogue(tools=tuple(tools))
