import type { FileServices } from '../files/file-services.ts'
import type { ResponseEvents } from './response-events.ts'
import type { ResponseSettingsReader } from './response-settings.ts'
import type { Conversations } from './stored-conversations.ts'
import type { StoredResponses } from './stored-responses.ts'

/** What stored responses and conversations need. */
export type ResponseServices = FileServices & {
  responseSettings: ResponseSettingsReader
  storedResponses: StoredResponses
  responseEvents: ResponseEvents
  conversations: Conversations
}
