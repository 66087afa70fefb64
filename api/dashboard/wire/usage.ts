/** Types shared by the Overview page and its routes. Days are UTC. */

/** Requests counted on the days so far. */
export type UsageFigures = { spend_usd: number; requests: number; errors: number; tokens: number }

/** GET /dashboard/api/organisations/{organisation}/overview */
export type Overview = {
  wallet: {
    balance_usd: number
    available_usd: number
    reserved_usd: number
    held_usd: number
    /** When the next part of the held amount becomes available. */
    held_release_at: string | null
  }
  /**
   * `is_low`: the available amount is below the organisation's threshold; always false for a wallet that was never
   * funded.
   */
  low_balance: { threshold_usd: number | null; is_low: boolean }
  today: UsageFigures
  month: UsageFigures
  /** Onboarding steps of a new organisation, each done or not. */
  first_steps: { email_verified: boolean; key_created: boolean; request_made: boolean; credits_added: boolean }
}

export type UsageBy = 'model' | 'key' | 'type'
export type UsageMeasure = 'cost' | 'requests' | 'tokens'

/** One model, key or type over the days of the chart; `id` is null for the sum of all others. */
export type UsageSeries = { id: string | null; name: string; values: number[]; total: number }

/** GET …/usage: USD, requests or tokens by day, the largest series first. */
export type UsageChart = { days: string[]; series: UsageSeries[]; total: number }
