/** Types shared by the page of alerts and its routes. */

/** GET and PATCH …/alerts */
export type AlertSettings = {
  /** Null = alerts are not posted. */
  alert_webhook_url: string | null
  /** A balance below this raises an alert; null = never. */
  low_balance_usd: number | null
  /** Recipients of alert emails. */
  email_to: string[]
}

/** An alert that was raised. */
export type RaisedAlert = {
  id: string
  /** "key.spend_alert" */
  type: string
  /** The subject of its email. */
  summary: string
  /** The page of what it is about, below the organisation's pages: "billing". */
  path: string
  created_at: string
  /** Whether its rule wants an email. */
  has_email: boolean
  /** Null while the email is pending, or if it could not be sent. */
  emailed_at: string | null
}

/** GET …/alerts/history */
export type AlertsAnswer = { data: RaisedAlert[]; has_more: boolean; last_id: string | null }
