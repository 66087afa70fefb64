/** Types shared by the audit log page and its route. */

export type AuditEvent = {
  id: string
  at: string
  actor: { kind: 'user' | 'provisioning_key' | 'operator'; id: string | null; name: string }
  /** How the change was made. `service`: by the gateway itself. */
  via: 'dashboard' | 'api' | 'command_line' | 'service'
  /** Where the request came from; null for the command line and the service itself, and in older entries. */
  ip_address: string | null
  user_agent: string | null
  /** "key.created" */
  action: string
  target: { id: string; name: string } | null
  /** Null for what an operator changed for the whole service. */
  organisation: { id: string; name: string } | null
  /** Each changed field before and after, with the API's field names. */
  changes: Record<string, [before: unknown, after: unknown]>
}

/** GET /dashboard/api/organisations/{organisation}/audit and /dashboard/api/operator/audit */
export type AuditAnswer = { data: AuditEvent[]; has_more: boolean; last_id: string | null }
