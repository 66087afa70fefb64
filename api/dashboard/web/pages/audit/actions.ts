import type { AuditEvent } from '../../../wire/audit.ts'

/** The phrase of each action, between actor and object. */
const texts: Record<string, string> = {
  'key.created': 'created the API key',
  'key.updated': 'changed the API key',
  'key.rolled': 'rolled the secret of the API key',
  'key.revoked': 'revoked the API key',
  'key.handed_over': 'transferred to the admins the API key',
  'provisioning_key.created': 'issued the provisioning key',
  'provisioning_key.revoked': 'revoked the provisioning key',
  'organisation.created': 'created the organisation',
  'organisation.changed': 'changed the organisation',
  'organisation.suspended': 'suspended the organisation',
  'organisation.resumed': 'resumed the organisation',
  'catalog_model.added': 'changed the model',
  'catalog_model.changed': 'changed the model',
  'catalog_model.removed': 'reset the model',
  'catalog_alias.added': 'added the alias',
  'catalog_alias.changed': 'changed the alias',
  'catalog_alias.removed': 'removed the alias',
  'catalog_server.added': 'added the server',
  'catalog_server.changed': 'changed the server',
  'catalog_server.removed': 'removed the server',
  'provider.paused': 'paused the provider',
  'provider.resumed': 'resumed the provider',
  'provider.tested': 'tested the API keys of the provider',
  'user.suspended': 'suspended',
  'user.resumed': 'resumed',
  'member.invited': 'invited',
  'invitation.cancelled': 'revoked the invitation of',
  'member.removed': 'removed the member',
  'member.role_changed': 'changed the role of',
  'member.two_factor_on': 'turned on two-factor sign-in of',
  'member.two_factor_off': 'turned off two-factor sign-in of',
  'member.two_factor_reset': 'removed the authenticator app and passkeys of',
  'member.backup_codes_replaced': 'generated new backup codes for',
  'member.passkey_added': 'added a passkey of',
  'member.passkey_removed': 'removed a passkey of',
  'webhook_endpoint.created': 'created the webhook endpoint',
  'webhook_endpoint.updated': 'changed the webhook endpoint',
  'webhook_endpoint.deleted': 'deleted the webhook endpoint',
  'webhook_endpoint.disabled': 'disabled the failing webhook endpoint',
  'webhook_endpoint.secret_rolled': 'rolled the secret of the webhook endpoint',
  'webhook_secret.rotated': 'rotated the webhook secret',
  'alert_settings.changed': 'changed the alert settings',
  'alert_rule.created': 'created the alert rule',
  'alert_rule.updated': 'changed the alert rule',
  'alert_rule.deleted': 'deleted the alert rule',
  'response_settings.changed': 'changed the storage of responses',
  'content_settings.changed': 'changed the logging of input and output',
  'request_log.viewed': 'viewed the requests',
  'request_content.viewed': 'viewed the input and output of',
  'request_content.deleted': 'deleted the input and output of',
  'top_up.started': 'started the top-up',
  'credit.added': 'added credits',
  'balance.adjusted': 'adjusted the balance',
}
const ownTexts: Record<string, string> = {
  'member.joined': 'joined the organisation',
  'member.removed': 'left the organisation',
  'member.two_factor_on': 'turned on two-factor sign-in',
  'member.two_factor_off': 'turned off two-factor sign-in',
  'member.backup_codes_replaced': 'generated new backup codes',
  'member.passkey_added': 'added a passkey',
  'member.passkey_removed': 'removed a passkey',
  'invitation.declined': 'declined the invitation',
}

/** The objects that the log can be filtered by. */
export const things = [
  { value: 'key', label: 'API keys' },
  { value: 'provisioning_key', label: 'Provisioning keys' },
  { value: 'member', label: 'Members' },
  { value: 'invitation', label: 'Invitations' },
  { value: 'credit', label: 'Credits' },
  { value: 'balance', label: 'Adjustments' },
  { value: 'top_up', label: 'Top-ups' },
  { value: 'webhook_secret', label: 'Webhook secret' },
  { value: 'alert_settings', label: 'Alert settings' },
  { value: 'alert_rule', label: 'Alert rules' },
  { value: 'response_settings', label: 'Stored responses' },
  { value: 'content_settings', label: 'Input and output logging' },
  { value: 'request_log', label: 'Requests viewed by operators' },
  { value: 'request_content', label: 'Logged input and output' },
  { value: 'organisation', label: 'Organisation' },
]

/** Describes an entry: the action and its object, unless that is the actor. An unknown action is shown by its name. */
export function sentenceOf({ actor, action, target }: AuditEvent): { text: string; object: string | null } {
  const isOwn = target !== null && target.id === actor.id
  const text = (isOwn ? ownTexts[action] : undefined) ?? texts[action] ?? action
  return { text, object: isOwn || target === null ? null : target.name }
}
