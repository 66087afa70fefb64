import { type Effort, efforts } from '../../../catalog/chat-profile.ts'

/** Whether a name is one of the efforts of the chat format. */
export function isEffort(name: string): name is Effort {
  return efforts.includes(name as Effort)
}
