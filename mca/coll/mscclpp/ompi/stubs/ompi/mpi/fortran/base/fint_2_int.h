/*
 * Stands in for a header that Open MPI's op.h includes and no Open MPI installs. Reached by -idirafter only, so that
 * the real one is used where a packager provides it. op.h converts single integers with it, in an inline function that
 * this component never calls; a cast is right wherever the compiler accepts the two types at all.
 */
#ifndef MCA_COLL_MSCCLPP_OMPI_STUBS_OMPI_MPI_FORTRAN_BASE_FINT_2_INT_H
#define MCA_COLL_MSCCLPP_OMPI_STUBS_OMPI_MPI_FORTRAN_BASE_FINT_2_INT_H

#ifndef OMPI_INT_2_FINT
#define OMPI_INT_2_FINT(value_) ((MPI_Fint)(value_))
#endif
#ifndef OMPI_FINT_2_INT
#define OMPI_FINT_2_INT(value_) ((int)(value_))
#endif

#endif
