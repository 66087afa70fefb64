import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import type {
  NewProvisioningKey,
  OperatorPerson,
  OrganisationDetail,
  OrganisationsPage,
  PeoplePage,
} from '../../../wire/operator.ts'
import { call, queryText } from '../../api.ts'

const base = '/dashboard/api/operator'
const pageSize = 25

export function useOrganisations(search: string) {
  return useInfiniteQuery({
    queryKey: ['operator', 'organisations', search],
    queryFn: ({ pageParam, signal }) =>
      call<OrganisationsPage>(`${base}/organisations${queryText({ search, limit: pageSize, after: pageParam })}`, {
        signal,
      }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
  })
}

export function useOrganisation(id: string) {
  return useQuery({
    queryKey: ['operator', 'organisation', id],
    queryFn: ({ signal }) => call<OrganisationDetail>(`${base}/organisations/${encodeURIComponent(id)}`, { signal }),
  })
}

/** Runs a change whose response is the updated organisation, and updates the cache. */
function useOrganisationChange<Input>(
  change: (input: Input) => Promise<OrganisationDetail>,
  onDone: (organisation: OrganisationDetail) => void,
) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSuccess: organisation => {
      queries.setQueryData(['operator', 'organisation', organisation.id], organisation)
      void queries.invalidateQueries({ queryKey: ['operator', 'organisations'] })
      // A new organisation may be the operator's own.
      void queries.invalidateQueries({ queryKey: ['me'] })
      onDone(organisation)
    },
  })
}

type NewOrganisation = { name: string; owner_email?: string }
export const useCreateOrganisation = (body: NewOrganisation, onDone: (organisation: OrganisationDetail) => void) =>
  useOrganisationChange<void>(() => call(`${base}/organisations`, { body }), onDone)

type NewCredit = { id: string; amount_usd: number; method: string; hold_days?: number }
export const useAddCredit = (id: string, body: NewCredit, onDone: () => void) =>
  useOrganisationChange<void>(() => call(`${base}/organisations/${id}/credits`, { body }), onDone)

type NewAdjustment = { id: string; amount_usd: number; reason: string; allow_negative?: boolean }
export const useAdjustBalance = (id: string, body: NewAdjustment, onDone: () => void) =>
  useOrganisationChange<void>(() => call(`${base}/organisations/${id}/adjustments`, { body }), onDone)

/** Suspends an organisation with a reason; null resumes it. */
export const useSuspendOrganisation = (id: string, onDone: () => void) =>
  useOrganisationChange<string | null>(
    reason => call(`${base}/organisations/${id}/suspension`, suspensionOf(reason)),
    onDone,
  )

function suspensionOf(reason: string | null) {
  return reason === null ? { method: 'DELETE' } : { body: { reason } }
}

export const useRevokeProvisioning = (id: string, onDone: () => void) =>
  useOrganisationChange<string>(
    key => call(`${base}/organisations/${id}/provisioning-keys/${key}`, { method: 'DELETE' }),
    onDone,
  )

export function useIssueProvisioning(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: () => call<NewProvisioningKey>(`${base}/organisations/${id}/provisioning-keys`, { method: 'POST' }),
    // The secret is not kept in the cache, and is shown before the list includes the key.
    gcTime: 0,
    onSuccess: () => void queries.invalidateQueries({ queryKey: ['operator', 'organisation', id] }),
  })
}

export function usePeople(filters: { search: string; operator: string }) {
  return useInfiniteQuery({
    queryKey: ['operator', 'people', filters],
    queryFn: ({ pageParam, signal }) =>
      call<PeoplePage>(`${base}/people${queryText({ ...filters, limit: pageSize, after: pageParam })}`, { signal }),
    initialPageParam: '',
    getNextPageParam: ({ has_more, last_id }) => (has_more ? last_id : null),
  })
}

export function useSetOperator({ id, operator }: Pick<OperatorPerson, 'id' | 'operator'>, onDone: () => void) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: () => call<OperatorPerson>(`${base}/people/${id}`, { method: 'PATCH', body: { operator: !operator } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['operator', 'people'] })
      onDone()
    },
  })
}

/** Suspends a person with a reason; null resumes them. */
export function useSuspendPerson(id: string, onDone: () => void) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (reason: string | null) =>
      call<OperatorPerson>(`${base}/people/${id}/suspension`, suspensionOf(reason)),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ['operator', 'people'] })
      onDone()
    },
  })
}
