import { z } from 'zod'

/** The fields of a body that may name its conversation. */
export type NamingBody = {
  prompt_cache_key?: string | null | undefined
  metadata?: Record<string, string> | null | undefined
}

/** Longer values are not read; Claude Code's has 170 characters. */
const maxUserIdLength = 1_024
const userId = z.object({ session_id: z.string().min(1) })
/** The form of older versions. */
const olderUserId = /^user_.*_session_([\w-]+)$/

/**
 * The session that Claude Code puts into `metadata.user_id`; null if there is none. Other values name a person, whose
 * conversations are independent.
 */
export function sessionInMetadata({ metadata }: NamingBody): string | null {
  const value = metadata?.user_id
  if (typeof value !== 'string' || value.length > maxUserIdLength) return null
  if (!value.startsWith('{')) return olderUserId.exec(value)?.[1] ?? null
  try {
    return userId.safeParse(JSON.parse(value)).data?.session_id ?? null
  } catch {
    return null
  }
}
