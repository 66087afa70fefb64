import { useQuery } from '@tanstack/react-query'
import { createContext, useContext } from 'react'
import { may, type Permission, type Role } from '../../../shared/base/roles.ts'
import type { Me, MeAnswer, OrganisationSummary, PublicSettings } from '../wire/person.ts'
import { ApiError, call } from './api.ts'
import { pagePermissions } from './shell/page-permissions.ts'

/** The signed-in user. Redirects to the sign-in if there is none. */
export function useMe() {
  return useQuery({ queryKey: ['me'], queryFn: ({ signal }) => fetchMe(signal) })
}

/** Fetches the signed-in person. Throws 401 `not_signed_in`, as other routes do, if the browser has no session. */
async function fetchMe(signal: AbortSignal): Promise<Me> {
  const { person } = await call<MeAnswer>('/dashboard/api/me', { signal })
  if (!person) throw new ApiError(401, 'not_signed_in', 'Sign in first.', null, null)
  return person
}

/** The public settings of this gateway. */
export function usePublicSettings() {
  return useQuery({
    queryKey: ['settings'],
    queryFn: ({ signal }) => call<PublicSettings>('/dashboard/api/settings', { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })
}

export type Place = Omit<OrganisationSummary, 'role'> & {
  me: Me
  /** The base path of the organisation's API routes: `/dashboard/api/organisations/<id>`. */
  base: string
  /** The base path of its pages in the router: `/<id>`. */
  home: string
  /** The user's role here; null for an operator, who looks at it from outside. */
  role: Role | null
  may(permission: Permission): boolean
  /** Whether an operator looks at it from outside: nothing can be changed, and only some pages exist. */
  isOperatorView: boolean
  /** Whether there is a page here for the user, such as "jobs". */
  has(page: string): boolean
}

export const PlaceContext = createContext<Place | null>(null)

/** The current organisation and the user's role in it. For pages inside the shell. */
export function usePlace(): Place {
  const place = useContext(PlaceContext)
  if (!place) throw new Error('usePlace outside of an organisation’s page')
  return place
}

export function placeOf(organisation: OrganisationSummary, me: Me): Place {
  return {
    ...organisation,
    me,
    base: `/dashboard/api/organisations/${organisation.id}`,
    home: `/${organisation.id}`,
    may: permission => may(organisation.role, permission),
    isOperatorView: false,
    has: page => Object.hasOwn(pagePermissions, page) && may(organisation.role, pagePermissions[page]!),
  }
}

/** An organisation as operators view it, whether they are members or not. `pages`: those that exist for them. */
export function operatorPlaceOf(
  organisation: Pick<OrganisationSummary, 'id' | 'name' | 'suspended'>,
  me: Me,
  pages: readonly string[],
): Place {
  const { id, name, suspended } = organisation
  return {
    id,
    name,
    suspended,
    me,
    role: null,
    require_two_factor: false,
    base: `/dashboard/api/operator/organisations/${id}`,
    home: `/operator/organisations/${id}`,
    may: () => false,
    isOperatorView: true,
    has: page => pages.includes(page),
  }
}

/** The service as a place: for pages that operators have of it as organisations have their own. */
export function servicePlaceOf(me: Me): Place {
  return {
    id: 'operator',
    name: 'Operator area',
    suspended: false,
    require_two_factor: false,
    role: null,
    me,
    base: '/dashboard/api/operator',
    home: '/operator',
    may: () => true,
    isOperatorView: false,
    has: page => page === 'log-exports',
  }
}
