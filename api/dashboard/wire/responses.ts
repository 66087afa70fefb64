/** GET and PATCH …/responses: whether responses and conversations are stored. */
export type ResponseSettings = {
  keep_responses: boolean
  /** Null = as long as the operator allows. */
  response_retention_days: number | null
  max_retention_days: number
}
