/** Types shared by the audit log page and its route. */

export type AuditEvent = {
  id: string
  at: string
  actor: { kind: 'user' | 'provisioning_key' | 'operator'; id: string | null; name: string }
  /** "key.created" */
  action: string
  target: { id: string; name: string } | null
  /** Each changed field before and after, with the API's field names. */
  changes: Record<string, [before: unknown, after: unknown]>
}

/** GET /dashboard/api/organisations/{organisation}/audit */
export type AuditAnswer = { data: AuditEvent[]; has_more: boolean; last_id: string | null }
