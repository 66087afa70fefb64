import type { ChatRequest } from '../../kinds/chat.ts'
import type { Target } from '../contract.ts'
import { fitFormat } from './fit-format.ts'
import { fitMessages } from './fit-messages.ts'
import { fitSettings } from './fit-settings.ts'
import { fitTools } from './fit-tools.ts'
import { Fitting } from './fitting.ts'

/**
 * Fits a chat request to what its target accepts (`shared/catalog/chat-profile.ts`). What changes only the course of an
 * answer is changed or left out, and named; the body is the same object if nothing changes. Throws a GatewayError
 * `unsupported_capability` that names the field without which the answer would not be the requested one.
 */
export function fitChat(body: ChatRequest, target: Target): Fitting {
  const fitting = new Fitting(body, target)
  // Tools first: their names occur in messages, and whether there are any decides upon effort and format.
  fitTools(fitting)
  fitMessages(fitting)
  fitFormat(fitting)
  fitSettings(fitting)
  return fitting
}
