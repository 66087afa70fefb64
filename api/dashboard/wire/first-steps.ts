/** GET /dashboard/api/organisations/{organisation}/first-request: null before the first request was logged. */
export type FirstRequestAnswer = { data: { id: string; created_at: string } | null }
