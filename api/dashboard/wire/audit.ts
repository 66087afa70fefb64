/** What the audit log's page and its route tell each other. */

export type AuditEvent = {
  id: string
  at: string
  actor: { kind: 'user' | 'provisioning_key' | 'operator'; id: string | null; name: string }
  /** "key.created" */
  action: string
  target: { id: string; name: string } | null
  /** Each field before and after, as the API writes it. */
  changes: Record<string, [before: unknown, after: unknown]>
}

/** GET /dashboard/api/organisations/{organisation}/audit */
export type AuditAnswer = { data: AuditEvent[]; has_more: boolean; last_id: string | null }
