import { useQuery } from '@tanstack/react-query'
import { createContext, useContext } from 'react'
import type { Me, OrganisationSummary, PublicSettings, Role } from '../wire/person.ts'
import { call } from './api.ts'

/** Who is signed in. A visitor who is not is led to the sign-in. */
export function useMe() {
  return useQuery({ queryKey: ['me'], queryFn: ({ signal }) => call<Me>('/dashboard/api/me', { signal }) })
}

/** What visitors may know of this gateway. */
export function usePublicSettings() {
  return useQuery({
    queryKey: ['settings'],
    queryFn: ({ signal }) => call<PublicSettings>('/dashboard/api/settings', { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })
}

export type Place = OrganisationSummary & {
  me: Me
  /** Where the organisation's routes begin: `/dashboard/api/organisations/<id>`. */
  base: string
  /** Where its pages begin, as the router has it: `/<id>`. */
  home: string
  /** Whether the person has at least a role here. */
  may(role: Role): boolean
}

export const PlaceContext = createContext<Place | null>(null)

/** The organisation whose page this is, and the person's role in it. For pages inside the shell. */
export function usePlace(): Place {
  const place = useContext(PlaceContext)
  if (!place) throw new Error('usePlace outside of an organisation’s page')
  return place
}

const roles: Role[] = ['member', 'admin', 'owner']

export function placeOf(organisation: OrganisationSummary, me: Me): Place {
  return {
    ...organisation,
    me,
    base: `/dashboard/api/organisations/${organisation.id}`,
    home: `/${organisation.id}`,
    may: role => roles.indexOf(organisation.role) >= roles.indexOf(role),
  }
}
