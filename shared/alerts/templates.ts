import { quoteName } from '../base/quote-name.ts'
import type { Alert } from '../generated/prisma/client.ts'
import type { Mail } from '../io/mail.ts'
import type { AlertType } from '../webhooks/events.ts'
import { type RuleEvent, ruleText } from './rule-events.ts'

let dollarFormat: Intl.NumberFormat | undefined

type SpendData = {
  key: { name: string; prefix: string; last4: string }
  percent: number
  cap_usd: number
  spent_usd: number
  resets_at: string
}
type BudgetData = {
  member: { name: string; email: string } | null
  percent: number
  limit_usd: number
  spent_usd: number
  blocks: boolean
  resets_at: string
}
/** Alerts of the previous release have no `reason`: each is about one request. */
type BlockedData = { key: SpendData['key']; excess_usd: number; reference: string; reason?: string }
type EndpointData = { id: string; url: string; failing_since: string }
type PausedData = { name: string; failing_since: string; error: string }
type GapData = { name: string; stream: string; from: string; to: string; reason: string }
type TopUpData = {
  amount_usd: number
  reason: string
  authentication_required: boolean
  enabled: boolean
  next_attempt_at: string | null
}
type TopUpLimitData = { balance_usd: number; spent_usd: number; monthly_limit_usd: number; resets_at: string }
type BalanceData = { balance_usd: number; held_usd: number; low_balance_usd: number }

/** An alert for people, with the page of what it is about below the organisation's pages. */
type AlertText = { subject: string; text: string; link: { label: string; path: string } }
type Formatter = {
  format(data: unknown, organisation: string): AlertText
  /** The page that the history of alerts links to. */
  path(data: unknown): string
}

const keyPath = (data: unknown) => `keys/${(data as { key: { hash: string } }).key.hash}`
const keysLink = { label: 'Show the keys', path: 'keys' }
const exportsLink = { label: 'Show the log exports', path: 'log-exports' }
const ruleAlert: Formatter = {
  format(data, organisation) {
    const { subject, text, path } = ruleText(data as RuleEvent, organisation)
    return { subject, text, link: { label: 'Show what it is about', path } }
  },
  path: data => ruleText(data as RuleEvent, '').path,
}

const formatters: Record<AlertType, Formatter> = {
  'key.spend_alert': {
    format: (data, organisation) => ({ ...spendText(data as SpendData, organisation), link: keysLink }),
    path: keyPath,
  },
  'budget.spend_alert': {
    format: (data, organisation) => ({
      ...budgetText(data as BudgetData, organisation),
      link: { label: 'Show the budgets', path: 'members' },
    }),
    path: () => 'members',
  },
  'key.blocked': {
    format: (data, organisation) => ({ ...blockedText(data as BlockedData, organisation), link: keysLink }),
    path: keyPath,
  },
  'wallet.low_balance': {
    format: (data, organisation) => ({
      ...balanceText(data as BalanceData, organisation),
      link: { label: 'Show billing', path: 'billing' },
    }),
    path: () => 'billing',
  },
  'auto_top_up.failed': {
    format: (data, organisation) => ({
      ...topUpText(data as TopUpData, organisation),
      link: { label: 'Pay, or change the card', path: `billing?amount=${(data as TopUpData).amount_usd}` },
    }),
    path: () => 'billing',
  },
  'auto_top_up.limit_reached': {
    format: (data, organisation) => ({
      ...topUpLimitText(data as TopUpLimitData, organisation),
      link: { label: 'Show billing', path: 'billing' },
    }),
    path: () => 'billing',
  },
  'webhook_endpoint.disabled': {
    format: (data, organisation) => ({
      ...endpointText(data as EndpointData, organisation),
      link: { label: 'Show the endpoint', path: endpointPath(data) },
    }),
    path: endpointPath,
  },
  'log_export.paused': {
    format: (data, organisation) => ({ ...pausedText(data as PausedData, organisation), link: exportsLink }),
    path: () => exportsLink.path,
  },
  'log_export.gap': {
    format: (data, organisation) => ({ ...gapText(data as GapData, organisation), link: exportsLink }),
    path: () => exportsLink.path,
  },
  'alert.raised': ruleAlert,
  'alert.resolved': ruleAlert,
}

/** The types of which this release writes emails. Others are of a newer one, whose workers write them. */
export const emailedTypes = Object.keys(formatters)
const ofNewerRelease = (type: string): Formatter => ({
  format: () => ({ subject: type, text: '', link: { label: 'Show the alerts', path: 'alerts' } }),
  path: () => 'alerts',
})

function formatterOf(type: string): Formatter {
  return formatters[type as AlertType] ?? ofNewerRelease(type)
}

function endpointPath(data: unknown): string {
  return `webhooks/endpoints/${(data as EndpointData).id}`
}

/** The page that the history of alerts links to, below the organisation's pages. */
export function alertPath({ type, data }: Pick<Alert, 'type' | 'data'>): string {
  return formatterOf(type).path(data)
}

/**
 * Formats the email of an alert. Names are quoted: members choose those of keys, and operators of the service get some of
 * these emails.
 */
export function formatAlertEmail(
  { type, data, organisationId }: Pick<Alert, 'type' | 'data' | 'organisationId'>,
  organisation: string,
  publicUrl: string,
): Omit<Mail, 'to'> {
  const { subject, text, link } = formatterOf(type).format(data, organisation)
  const url = `${publicUrl}/dashboard/${organisationId}/${link.path}`
  return { subject, text, link: { label: link.label, url } }
}

function spendText({ key, percent, cap_usd, spent_usd, resets_at }: SpendData, organisation: string) {
  const cap = dollars(cap_usd)
  const resets = resets_at.slice(0, 10)
  const spent = `The API key ${quoteName(key.name)} (${key.prefix}…${key.last4}) of ${quoteName(organisation)} has spent ${dollars(spent_usd)} of its monthly cap of ${cap}.`
  if (percent < 100) {
    return {
      subject: `${percent}% of the monthly cap of ${quoteName(key.name)} is spent`,
      text: `${spent}\n\nRequests that do not fit under the cap will be refused until ${resets} (UTC). Raise the cap if that is too early.`,
    }
  }
  return {
    subject: `The monthly cap of ${quoteName(key.name)} is reached`,
    text: `${spent}\n\nRequests that do not fit under the cap are refused until ${resets} (UTC). Raise the cap to go on before that.`,
  }
}

function budgetText({ member, percent, limit_usd, spent_usd, blocks, resets_at }: BudgetData, organisation: string) {
  const whose = member
    ? `the member ${quoteName(member.name)} (${member.email}) of ${quoteName(organisation)}`
    : quoteName(organisation)
  const name = member ? quoteName(member.name) : quoteName(organisation)
  const resets = resets_at.slice(0, 10)
  const effect = blocks
    ? `Requests that do not fit are refused until ${resets} (UTC). Raise the budget to go on before that.`
    : 'The budget does not refuse requests.'
  return {
    subject:
      percent === 100
        ? `The monthly budget of ${name} is reached`
        : `${percent}% of the monthly budget of ${name} is spent`,
    text: `The API keys of ${whose} have spent ${dollars(spent_usd)} of the monthly budget of ${dollars(limit_usd)}.\n\n${effect}`,
  }
}

const blockedReasons: Record<string, string> = {
  organisation_limit: 'Together with those of the other keys of the organisation, that is too much for one hour.',
  negative_balance: 'That drove the balance of the organisation below zero.',
}

function blockedText({ key, excess_usd, reference, reason = '' }: BlockedData, organisation: string) {
  const name = `the API key ${quoteName(key.name)} (${key.prefix}…${key.last4}) of ${quoteName(organisation)}`
  const why = blockedReasons[reason]
  return {
    subject: `The API key ${quoteName(key.name)} is blocked`,
    text: `Within an hour, the requests of ${name} cost ${dollars(excess_usd)} more than was reserved for them: providers counted more than the requests could use by their own limits. ${why ? `${why} ` : ''}The amounts were charged as separate ledger entries; the last of these requests is ${reference}.

The key is blocked so that this does not go on. Look at the requests, then enable the key again.`,
  }
}

function pausedText({ name, failing_since, error }: PausedData, organisation: string) {
  return {
    subject: `The log export ${quoteName(name)} of ${quoteName(organisation)} is paused`,
    text: `No batch was accepted since ${minuteText(failing_since)}, so the export is paused. The last answer was: ${error}

After the fault is mended, enable the export: it continues where it was, with everything that is not older than its retention.`,
  }
}

function gapText({ name, stream, from, to, reason }: GapData, organisation: string) {
  const why =
    reason === 'retention'
      ? 'Rows of this time were deleted by their age before they were delivered.'
      : 'The database was restored: rows of this time may be missing. Replay the window to deliver them again.'
  return {
    subject: `The log export ${quoteName(name)} of ${quoteName(organisation)} has a gap`,
    text: `Stream ${stream}, from ${minuteText(from)} to ${minuteText(to)}. ${why}`,
  }
}

function minuteText(iso: string): string {
  return `${iso.slice(0, 16).replace('T', ' ')} UTC`
}

function endpointText({ url, failing_since }: EndpointData, organisation: string) {
  const since = minuteText(failing_since)
  return {
    subject: `A webhook endpoint of ${quoteName(organisation)} is disabled`,
    text: `Every delivery to ${url} has failed since ${since}, so the endpoint is disabled: it gets no events until it is enabled again.

Its deliveries show what the receiver answered. After the fault is mended, enable the endpoint and resend what failed.`,
  }
}

function balanceText({ balance_usd, held_usd, low_balance_usd }: BalanceData, organisation: string) {
  const held = held_usd > 0 ? `, of which ${dollars(held_usd)} is held until its payment has settled` : ''
  return {
    subject: `The balance of ${quoteName(organisation)} is low`,
    text: `The balance of ${quoteName(organisation)} is ${dollars(balance_usd)}${held}. It counts as low below ${dollars(low_balance_usd)}.\n\nRequests are refused once nothing is left. Add credits to keep them going.`,
  }
}

function topUpText({ amount_usd, reason, authentication_required, ...data }: TopUpData, organisation: string) {
  const why = authentication_required
    ? 'The bank wants the holder of the card to authenticate. Pay the amount on the page below, where that is possible.'
    : `The payment provider’s reason: ${reason.replaceAll('_', ' ')}. Nothing was charged.`
  const next = data.next_attempt_at
    ? `The next attempt is not before ${minuteText(data.next_attempt_at)}, if the balance is still low.`
    : 'Automatic top-ups are turned off now. Save another card and turn them on again.'
  return {
    subject: data.enabled
      ? `An automatic top-up of ${quoteName(organisation)} failed`
      : `Automatic top-ups of ${quoteName(organisation)} are turned off`,
    text: `The saved card could not be charged ${dollars(amount_usd)} for ${quoteName(organisation)}. ${why}\n\n${next} Requests are refused once nothing is left.`,
  }
}

function topUpLimitText(
  { balance_usd, spent_usd, monthly_limit_usd, resets_at }: TopUpLimitData,
  organisation: string,
) {
  return {
    subject: `The monthly limit of automatic top-ups of ${quoteName(organisation)} is reached`,
    text: `The balance of ${quoteName(organisation)} is ${dollars(balance_usd)}, but automatic top-ups of ${dollars(spent_usd)} leave no room for another one under the limit of ${dollars(monthly_limit_usd)} until ${resets_at.slice(0, 10)} (UTC).\n\nRequests are refused once nothing is left. Add credits, or raise the limit.`,
  }
}

/** Creates the formatter on first use, because that takes 10 ms. */
function dollars(usd: number): string {
  dollarFormat ??= new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' })
  return dollarFormat.format(usd)
}
