/** Words that readers use for the words of the pages. */
const synonyms: Record<string, readonly string[]> = {
  rotate: ['roll'],
  rotation: ['roll'],
  renew: ['roll'],
  regenerate: ['roll'],
  quota: ['cap', 'limit', 'limits'],
  quotas: ['cap', 'limit', 'limits'],
  cap: ['limit', 'limits'],
  spending: ['spend', 'cap'],
  budget: ['cap', 'limit', 'limits'],
  budgets: ['cap', 'limit', 'limits'],
  throttle: ['rate', 'limit'],
  throttling: ['rate', 'limit'],
  ratelimit: ['rate', 'limit'],
  delete: ['revoke', 'remove'],
  invoice: ['ledger', 'statement', 'billing'],
  bill: ['ledger', 'billing'],
  cost: ['price', 'spend'],
  pricing: ['price', 'prices'],
  fallback: ['failover', 'fallbacks'],
  retry: ['failover', 'retries'],
  team: ['organisation', 'member'],
  workspace: ['organisation'],
  organization: ['organisation'],
  login: ['sign'],
  signin: ['sign'],
  mfa: ['factor', 'authenticator'],
  '2fa': ['factor', 'authenticator'],
  sso: ['openid', 'oidc'],
  logs: ['requests', 'logging'],
  callback: ['webhook', 'webhooks'],
  stt: ['transcription'],
  tts: ['speech'],
  docker: ['deployment', 'compose'],
  kubernetes: ['deployment', 'helm'],
  k8s: ['kubernetes', 'deployment', 'helm'],
  install: ['quickstart', 'deployment'],
}
/** What was typed counts more than what it may mean. */
const synonymBoost = 0.6
const decisionBoost = 0.15
const historyBoost = 0.4
/** A section that names everything. */
const listBoost = 0.6
/** Another short word is another word: "can" is not meant as "cap". */
const minFuzzyLength = 6

/** A word of the search with its synonyms: a page with any of them is found. */
function processTerm(term: string): string[] {
  const word = term.toLowerCase()
  return [word, ...synonymsOf(word)]
}

function synonymsOf(word: string): readonly string[] {
  return Object.hasOwn(synonyms, word) ? synonyms[word]! : []
}

/** Whether a term was added by `processTerm`, behind the word it stands for. */
function isAdded(term: string, index: number, terms: readonly string[]): boolean {
  return terms.slice(0, index).some(word => synonymsOf(word).includes(term))
}

/** How the search orders its results: guides are before reasons and history. */
export const searchRanking = {
  processTerm,
  boostTerm: (term: string, index: number, terms: string[]) => (isAdded(term, index, terms) ? synonymBoost : 1),
  // A synonym is a whole word: "cap" is not meant as the beginning of "capability".
  prefix: (term: string, index: number, terms: string[]) => !isAdded(term, index, terms),
  fuzzy: (term: string) => (term.length < minFuzzyLength ? false : 0.2),
  boostDocument(id: string): number {
    if (id.includes('/decisions/')) return decisionBoost
    if (/\/(?:changelog|ARCHITECTURE|glossary)\b/.test(id)) return historyBoost
    return id.endsWith('/dashboard#pages') ? listBoost : 1
  },
}
